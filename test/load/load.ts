/**
 * `npm run load -- SCENARIO`: the program of `@latchkey/load`, which without --url starts a service (packages/load/README.md).
 * `npm run load -- seed --users N`: fills the service's database with users that the kit knows.
 */
import { makeLiveView } from '../../packages/load/src/live-view.ts';
import { runProgram, withMessages } from '../../packages/load/src/program.ts';
import { startOwnService } from './own-service.ts';
import { readSeedArguments, runSeed } from './run-seed.ts';
import { listSeeded } from './seeded-accounts.ts';

const USAGE = `npm run load -- SCENARIO                                  starts a service of its own to test; also herd
npm run load -- seed --users N [--yes-i-own-this]         fills a service's database with users that devices know
Otherwise it takes the words of latchkey-load:

`;

const words = process.argv.slice(2);
process.exitCode =
  words[0] === 'seed'
    ? await withMessages(async () => {
        await runSeed(readSeedArguments(words.slice(1)), process.env, makeLiveView(process.stdout));
        return 0;
      })
    : await runProgram(words, process.env, { usage: USAGE, listSeeded, startOwn: startOwnService });
