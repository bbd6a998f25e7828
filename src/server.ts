import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { buildApp, buildOpsApp, type OpsOptions } from './app.ts';
import { compose, type Composition } from './composition/compose.ts';
import { ConfigError, loadConfig, type Config } from './config/config.ts';
import { transportWarnings } from './config/transport.ts';
import { openDatabase } from './composition/open-database.ts';
import { openTracing } from './infra/tracing/open-tracing.ts';
import { makeLogger } from './runtime/logger.ts';
import { StartError } from './runtime/start-error.ts';

/** The setting of the address beside each port. */
const HOSTS = { PORT: 'HOST', OPS_PORT: 'OPS_HOST' } as const;

/** The stores get at least this long to close, even after the deadline; milliseconds. */
const CLOSE_GRACE = 1000;
/** How long the API's port stays closed while the replica is not ready; milliseconds. */
const READY_WAIT = 5000;
const READY_INTERVAL = 50;
/** How long a new connection's first request may take to arrive during the shutdown; milliseconds. */
const ARRIVAL = 1000;

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
  // Listen for signals first: a signal during startup must not leave the embedded database running.
  const signal = firstSignal();
  const { logger, output, tracing } = await openTelemetry(config);
  for (const line of [...config.embedded, ...config.warnings]) logger.warn(line);
  for (const { variable, found, todo } of transportWarnings(config))
    logger.warn(`${variable}: ${found}. To do: ${todo}`);
  const database = await openDatabase(config, logger, () => {
    process.exitCode = 1;
    process.kill(process.pid, 'SIGTERM');
  });
  const composition = await compose(config, database.url, logger, output, tracing?.tracer);
  const app = await buildApp(composition.app);
  const { readiness } = composition.ops;
  const { fillWithSeed, forbidden } = composition;
  let isListening = false;
  const ops = await buildOpsApp({
    ...composition.ops,
    readiness: async () => {
      const state = await readiness();
      return { ...state, ready: state.ready && isListening };
    },
  });
  const [connections, opsConnections] = [watchConnections(app), watchConnections(ops)];

  const listen = async (server: FastifyInstance, setting: 'PORT' | 'OPS_PORT', host: string) => {
    try {
      await server.listen({ host, port: config[setting] });
    } catch (error) {
      throw new StartError(whyNoPort(setting, config[setting], host, error));
    }
  };
  const prepare = async () => {
    // A proxy that does not ask for readiness sends requests once the port is open. During an outage, clients
    // get 503.
    if (!fillWithSeed) return readyWithin(READY_WAIT, composition);
    // It waits until it may write, however long that takes, so that whoever finds the port open finds the
    // users.
    composition.start();
    await readyWithin(Infinity, composition);
    return fillWithSeed();
  };
  let received: NodeJS.Signals;
  try {
    await listen(ops, 'OPS_PORT', config.OPS_HOST);
    await Promise.race([signal, forbidden, prepare()]);
    await listen(app, 'PORT', config.HOST);
    isListening = true;
    if (!fillWithSeed) composition.start();
    announce(config, app, ops, composition.ops.build, logger);
    received = await Promise.race([signal, forbidden]);
  } catch (error) {
    // Before the database: PostgreSQL logs a FATAL for each connection that it has to cut.
    await Promise.race([composition.close().catch(() => undefined), pause(CLOSE_GRACE)]);
    await database.stop();
    throw error;
  }
  logger.info('stopping: draining first');
  composition.drain();
  const deadline = performance.now() + config.SHUTDOWN_TIMEOUT * 1000;
  // Ctrl-C skips the drain delay: a process at a terminal is behind no load balancer.
  if (received !== 'SIGINT') await sleep(config.DRAIN_DELAY * 1000, deadline);
  await connections.closeWithin(deadline - performance.now());
  await opsConnections.closeWithin(deadline - performance.now());
  // A store that hangs must not block the exit. Pending writes are flushed if the stores answer in time.
  await Promise.race([
    composition.close().then(() => tracing?.close()),
    pause(Math.max(deadline - performance.now(), CLOSE_GRACE)),
  ]);
  await database.stop();
  logger.info('stopped');
  process.exit();
}

/**
 * Resolves once the replica is ready, at the latest after `ms`.
 * @throws StartError if only an administrator of the database can make it ready
 */
async function readyWithin(ms: number, { ops, refusal }: Composition): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await ops.readiness()).ready && performance.now() < deadline) {
    const reason = refusal();
    if (reason !== null) throw new StartError(reason);
    await pause(READY_INTERVAL);
  }
}

/** Opens the log and, if configured, tracing. Log lines carry trace ids, and tracing logs its failures. */
async function openTelemetry(config: Config) {
  const tracing = await openTracing(
    config.tracing && {
      ...config.tracing,
      onError: (error) => {
        log.logger.warn({ reason: error.name }, 'spans cannot be sent');
      },
    },
  );
  const log = makeLogger(config.LOG_LEVEL, process.stdout.isTTY, tracing?.tracer);
  return { ...log, tracing };
}

function announce(
  config: Config,
  app: FastifyInstance,
  ops: FastifyInstance,
  { version, revision }: OpsOptions['build'],
  logger: Logger,
): void {
  const [url = ''] = app.listeningOrigin ? [app.listeningOrigin] : [];
  logger.info({ url, ops: ops.listeningOrigin, issuer: config.ISSUER, version, revision }, 'serving');
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

/** One Ctrl-C may arrive twice, since npm passes it on too. A third signal ends the process at once. */
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

/** A server that can close the connections on which no byte has arrived. To Node they are requests in flight. */
function watchConnections(app: FastifyInstance) {
  const open = new Set<Socket>();
  app.server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  const closeUnused = () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  };
  const closeAll = () => {
    app.server.closeAllConnections();
  };

  return {
    /** Takes no new connections, waits for requests in flight, and closes the remaining connections after `ms`. */
    async closeWithin(ms: number): Promise<void> {
      const timers = [setTimeout(closeUnused, ARRIVAL), setTimeout(closeAll, Math.max(0, ms))];
      await app.close();
      for (const timer of timers) clearTimeout(timer);
    },
  };
}

function sleep(ms: number, deadline: number): Promise<void> {
  return pause(Math.max(0, Math.min(ms, deadline - performance.now())));
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Why a server cannot listen, with the setting to change and, if it can be known, the process that has the port. */
function whyNoPort(setting: keyof typeof HOSTS, port: number, host: string, error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRNOTAVAIL') return `${HOSTS[setting]}: this machine has no address ${host}`;
  if (code !== 'EADDRINUSE') return `${setting}: cannot listen on ${port}: ${message}`;
  const holder = holderOf(port);
  if (holder?.pid === String(process.pid))
    return `PORT and OPS_PORT are both ${port}: set one to another port`;
  const by = holder === null ? '' : ` by process ${holder.pid} (${holder.name})`;
  const find = holder === null ? ` (\`ss -ltnp\` or \`lsof -i :${port}\` shows by which process)` : '';
  return `${setting}: port ${port} is in use${by}${find}: stop that process, or set ${setting} to another port`;
}

/**
 * The id and name of the process that listens on a TCP port. Linux only, and only a process that this user may inspect.
 */
function holderOf(port: number): { pid: string; name: string } | null {
  const sockets = ['tcp', 'tcp6'].flatMap((table) => listening(`/proc/net/${table}`, port));
  const holds = (pid: string) =>
    orNone(() => readdirSync(`/proc/${pid}/fd`))?.some((fd) => {
      const link = orNone(() => readlinkSync(`/proc/${pid}/fd/${fd}`));
      return link !== null && sockets.includes(link);
    });
  const pid = orNone(() => readdirSync('/proc'))?.find((name) => /^\d+$/.test(name) && holds(name));
  const name = pid && orNone(() => readFileSync(`/proc/${pid}/comm`, 'utf8').trim());
  return pid && name ? { pid, name } : null;
}

/** The sockets of a table that listen on the port, as the links in /proc/PID/fd name them. */
function listening(table: string, port: number): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  return (orNone(() => readFileSync(table, 'utf8')) ?? '')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(`:${hex}`) && state === '0A')
    .map((fields) => `socket:[${fields[9] ?? ''}]`);
}

/** null on another system, for another user's process, and for one that has just ended. */
function orNone<Found>(read: () => Found): Found | null {
  try {
    return read();
  } catch {
    return null;
  }
}
