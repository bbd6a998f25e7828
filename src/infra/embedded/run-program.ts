import { spawn } from 'node:child_process';
import type { Account } from './server-account.ts';

/** The whole environment of PostgreSQL's programs: no inherited PG… or LD_… settings, messages in English. */
export const environment = { LC_ALL: 'C', TZ: 'UTC' };

type Options = { cwd: string; account: Account; stdin?: number };
type Outcome = { ok: boolean; output: string };

/** Runs a program to its end. If it cannot start, this resolves too, with the reason as output. */
export function runProgram(program: string, args: string[], options: Options): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      ...options.account,
      env: environment,
      stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
    }
    child.once('error', (error) => {
      resolve({ ok: false, output: error.message });
    });
    child.once('close', (code) => {
      resolve({ ok: code === 0, output: output.trim() });
    });
  });
}
