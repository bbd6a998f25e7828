import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { buildApp, buildOpsApp } from './app.ts';
import { compose } from './compose.ts';
import { ConfigError, loadConfig, type Config } from './config.ts';
import { openDatabase } from './embedded.ts';
import { openTracing } from './infra/tracing/open-tracing.ts';
import { makeLogger } from './logger.ts';
import { StartError } from './start-error.ts';

/** However late it is, the stores get this long to say goodbye; milliseconds. */
const CLOSE_GRACE = 1000;

try {
  const config = loadConfig();
  await serve(config);
} catch (error) {
  if (!(error instanceof ConfigError || error instanceof StartError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}

/** Runs the service until a signal ends it. */
async function serve(config: Config): Promise<void> {
  // From the first moment on: a signal during the start must not leave the embedded database behind.
  const signal = firstSignal();
  const { logger, tracing } = await openTelemetry(config);
  for (const line of config.embedded) logger.warn(line);
  const database = await openDatabase(config, logger, () => {
    process.exitCode = 1;
    process.kill(process.pid, 'SIGTERM');
  });
  const composition = await compose(config, database.url, logger, tracing?.tracer);
  const app = await buildApp(composition.app);
  const ops = await buildOpsApp(composition.ops);

  try {
    await ops.listen({ host: config.OPS_HOST, port: config.OPS_PORT });
    await app.listen({ host: config.HOST, port: config.PORT });
  } catch (error) {
    await database.stop();
    throw new StartError(`cannot listen: ${(error as Error).message}`);
  }
  composition.start();
  announce(config, app, ops, logger);

  const received = await signal;
  logger.info('stopping: draining first');
  composition.drain();
  const deadline = performance.now() + config.SHUTDOWN_TIMEOUT * 1000;
  // Nobody routes traffic to a process at a terminal, and Ctrl-C should not take five seconds.
  if (received !== 'SIGINT') await sleep(config.DRAIN_DELAY * 1000, deadline);
  await closeWithin(app, deadline - performance.now());
  await ops.close();
  // What a store that hangs still owes us does not keep us; what can be written behind is.
  await Promise.race([
    composition.close().then(() => tracing?.close()),
    pause(Math.max(deadline - performance.now(), CLOSE_GRACE)),
  ]);
  await database.stop();
  logger.info('stopped');
  process.exit();
}

/** The log, and spans where somebody asked for them: each knows of the other. */
async function openTelemetry(config: Config) {
  const tracing = await openTracing(
    config.tracing && {
      protocol: config.tracing,
      onError: (error) => {
        logger.warn({ reason: error.name }, 'spans cannot be sent');
      },
    },
  );
  const logger = makeLogger(config.LOG_LEVEL, process.stdout.isTTY, tracing?.tracer);
  return { tracing, logger };
}

function announce(config: Config, app: FastifyInstance, ops: FastifyInstance, logger: Logger): void {
  const [url = ''] = app.listeningOrigin ? [app.listeningOrigin] : [];
  logger.info({ url, ops: ops.listeningOrigin }, 'serving');
  if (config.production) return;
  const account = {
    username: 'ada',
    name: 'Ada',
    email: 'ada@example.com',
    password: 'difference engine no. 2',
  };
  const curl = `curl -s ${url}/api/auth/signup -H 'Content-Type: application/json' -d '${JSON.stringify(account)}'`;
  logger.info(`try it: ${curl}`);
}

/** Two may be one Ctrl-C, passed on by npm as well. A third ends the process at once: somebody is waiting. */
function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = 0;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (++seen > 2) process.exit(1);
        resolve(signal);
      });
    }
  });
}

/** Takes no more connections, lets what is under way finish, and cuts what is left at the deadline. */
async function closeWithin(app: FastifyInstance, ms: number): Promise<void> {
  const timer = setTimeout(
    () => {
      app.server.closeAllConnections();
    },
    Math.max(0, ms),
  );
  await app.close();
  clearTimeout(timer);
}

function sleep(ms: number, deadline: number): Promise<void> {
  return pause(Math.max(0, Math.min(ms, deadline - performance.now())));
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
