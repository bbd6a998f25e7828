import pg from 'pg';
import type { FaultProxy } from '../../support/fault-proxy.ts';
import type { OwnPostgres } from '../../support/own-postgres.ts';
import type { Fault } from './fault.ts';
import { DATABASE_TIMEOUT } from './world.ts';

/** A login waits for a connection and for several statements in turn; each may take DATABASE_TIMEOUT. */
const BOUND = 6 * DATABASE_TIMEOUT;

/** Faults of PostgreSQL. Once healed, it must be as before. */
export function postgresFaults(postgres: OwnPostgres, proxy: FaultProxy): Fault[] {
  const through = (name: string, fault: Parameters<FaultProxy['set']>[0]): Fault => ({
    name: `PostgreSQL ${name}`,
    bound: BOUND,
    seconds: 3,
    strike: () => {
      proxy.set(fault);
    },
    heal: () => {
      proxy.set('pass');
    },
  });
  const startAgain = async () => {
    await postgres.start();
    proxy.retarget(postgres.url());
  };
  const cutOff = () =>
    postgres.ask(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
  const occupants: pg.Client[] = [];

  return [
    through('refusing connections', 'refuse'),
    through('gone without a word (black hole)', 'vanish'),
    through('hung', 'hang'),
    through('slow, 100 ms each way', 100),
    through('slow, 1 s each way', 1000),
    { ...through('connections closed', 'refuse'), seconds: 0 },
    { name: 'PostgreSQL sessions terminated', bound: BOUND, seconds: 0, strike: cutOff },
    {
      name: 'PostgreSQL restarted',
      bound: BOUND,
      seconds: 1,
      strike: () => postgres.stop(),
      heal: startAgain,
    },
    {
      name: 'PostgreSQL crashed',
      bound: BOUND,
      seconds: 1,
      strike: () => postgres.crash(),
      heal: startAgain,
    },
    {
      name: 'PostgreSQL connections used up',
      bound: BOUND,
      seconds: 3,
      strike: () => occupyAll(postgres.url(), occupants),
      heal: () => Promise.all(occupants.splice(0).map((client) => client.end())),
    },
    {
      name: 'PostgreSQL read-only (a failed-over primary)',
      bound: BOUND,
      seconds: 3,
      async strike() {
        await postgres.ask('ALTER SYSTEM SET default_transaction_read_only = on');
        await postgres.ask('SELECT pg_reload_conf()');
      },
      async heal() {
        await postgres.ask('ALTER SYSTEM RESET default_transaction_read_only');
        await postgres.ask('SELECT pg_reload_conf()');
      },
    },
  ];
}

/** Takes every connection, including those of the superuser and the replicas. */
async function occupyAll(url: string, clients: pg.Client[]): Promise<void> {
  const [first] = await occupyRest(url, clients);
  const rest = async () => (await occupyRest(url, clients)).length > 0;
  do {
    await first?.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND application_name <> '${OCCUPANT}'`,
    );
    // The replicas reconnect as fast as they can and take some of the freed connections.
  } while (await rest());
}

const OCCUPANT = 'occupant';

async function occupyRest(url: string, clients: pg.Client[]): Promise<pg.Client[]> {
  const taken: pg.Client[] = [];
  for (;;) {
    const client = new pg.Client({ connectionString: url, application_name: OCCUPANT });
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch {
      return taken;
    }
    taken.push(client);
    clients.push(client);
  }
}
