import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createVerifier, type VerifierError } from '@latchkey/verifier';
import { makeCheckTokens } from './check-tokens.ts';
import { ConfigurationError, type Address, type Configuration } from './configuration.ts';
import { limited, type Log } from './log.ts';
import { makeMetrics, type Metrics } from './metrics.ts';
import { explain, makeIsNews, watchMistakes } from './mistakes.ts';
import { makeOps } from './ops.ts';
import { answerClientError } from './problems.ts';

interface Parts {
  configuration: Configuration;
  log: Log;
  /** Called if a mistake in the configuration has lasted for 30 s. */
  onLastingMistake: () => void;
}

/** `npm run bench:agent` measures the memory. */
const CACHES = { tokenCache: { size: 100_000, bytes: 256 * 2 ** 20 }, longLived: { cacheSize: 100_000 } };
/** Milliseconds for a request to arrive; Node allows its headers as long. */
const TIMEOUTS = { requestTimeout: 10_000, connectionsCheckingInterval: 1000 };
/** Milliseconds to stop. */
const STOP_TIMEOUT = 10_000;

/**
 * Listens at once, and answers 503 until it has keys and revocations.
 * @returns how to stop it: it is not ready from then on, answers what was asked, and ends.
 * @throws ConfigurationError for an address that it cannot listen on
 */
export async function startAgent({
  configuration,
  log,
  onLastingMistake,
}: Parts): Promise<() => Promise<void>> {
  let state: 'starting' | 'ready' | 'draining' = 'starting';
  const stopping = new AbortController();
  const refusals = limited(log);
  const isNews = makeIsNews();
  const metrics = makeMetrics();
  const verifier = createVerifier({
    ...configuration.verifier,
    ...CACHES,
    fetch: (...request) => counted(metrics, request),
    onError: (error) => {
      if (isNews(error)) log('warn', explain(error, configuration.credentials), { reason: error.reason });
    },
    onRecovered: () => log('info', 'the revocation feed is back'),
  });
  const checkTokens = makeCheckTokens({
    verifier,
    audience: configuration.verifier.audience,
    checked(refusal: VerifierError | null, requestId?: string) {
      metrics.checked(refusal);
      if (!refusal) return;
      const { code, reason, message } = refusal;
      refusals('info', message, { code, reason, request_id: requestId });
    },
    // Its message might hold a part of the request.
    failed: (error, requestId) =>
      log('error', 'a check failed', { error: (error as Error).name, request_id: requestId }),
  });
  const main = makeServer(checkTokens);
  const exposition = () =>
    metrics.exposition(state === 'ready', verifier.staleness(), verifier.cachedTokens());
  const ops = makeServer(makeOps({ state: () => state, exposition }));

  async function stop(): Promise<void> {
    state = 'draining';
    stopping.abort();
    const cut = setTimeout(() => {
      main.closeAllConnections();
    }, STOP_TIMEOUT);
    await close(main);
    clearTimeout(cut);
    ops.closeAllConnections();
    await Promise.all([close(ops), verifier.close()]);
  }

  const opened = await Promise.all([
    open(main, 'AGENT_LISTEN', configuration.listen),
    open(ops, 'AGENT_OPS_LISTEN', configuration.ops),
  ]);
  const problems = opened.filter((each) => typeof each === 'string');
  if (problems.length > 0) {
    await stop();
    throw new ConfigurationError(problems.join('\n'));
  }
  void watchMistakes({
    verifier,
    signal: stopping.signal,
    onReady() {
      if (state !== 'starting') return;
      state = 'ready';
      log('info', 'ready');
    },
    onLasting(mistake) {
      log('error', `for 30 s: ${explain(mistake, configuration.credentials)}`);
      onLastingMistake();
    },
  });
  return stop;
}

function makeServer(listener: RequestListener): Server {
  return createServer(TIMEOUTS, listener).on('clientError', answerClientError);
}

/** @returns what is wrong with the address. */
async function open(server: Server, variable: string, { host, port }: Address): Promise<string | null> {
  try {
    await once(server.listen({ host, port }), 'listening');
    return null;
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    const why = code === 'EADDRINUSE' ? 'another process listens there' : code;
    return `${variable}: cannot listen on ${host}, port ${port}: ${why}`;
  }
}

function close(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.close(resolve));
}

async function counted(metrics: Metrics, request: Parameters<typeof fetch>): Promise<Response> {
  const [to] = request;
  const { pathname: path } = new URL(to instanceof Request ? to.url : to);
  // The id of this process is no label.
  const pathname = path.replace(/(?<=\/readers\/).*/, '{reader}');
  try {
    const response = await fetch(...request);
    metrics.requested(pathname, String(response.status));
    return response;
  } catch (error) {
    metrics.requested(pathname, 'failed');
    throw error;
  }
}
