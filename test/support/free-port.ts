import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';

/**
 * One file per claimed port, with the claimer's process id. Test files run at the same time and start their servers
 * some time after they chose a port. Without claims two of them sometimes choose the same one.
 */
const claims = join(tmpdir(), `latchkey-ports-${userInfo().username}`);
const mine = new Set<number>();

process.on('exit', () => {
  for (const port of mine) rmSync(claimOf(port), { force: true });
});

/** A free port of 127.0.0.1, below the ephemeral range. No other test gets it while this process runs. */
export async function freePort(): Promise<number> {
  mkdirSync(claims, { recursive: true });
  for (;;) {
    const port = randomInt(15_000, 32_000);
    if (tryClaim(port) && (await isFree(port))) return port;
  }
}

function tryClaim(port: number): boolean {
  if (mine.has(port)) return false;
  if (isAlive(readClaim(port))) return false;
  rmSync(claimOf(port), { force: true });
  try {
    writeFileSync(claimOf(port), String(process.pid), { flag: 'wx' });
  } catch {
    return false; // Another process was faster.
  }
  mine.add(port);
  return true;
}

function readClaim(port: number): number | undefined {
  try {
    return Number(readFileSync(claimOf(port), 'utf8')) || undefined;
  } catch {
    return undefined;
  }
}

function claimOf(port: number): string {
  return join(claims, String(port));
}

/** Whether a process with this id runs. */
export function isAlive(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = net.createServer();
  return new Promise((resolve) => {
    server.once('error', () => {
      resolve(false);
    });
    server.listen(port, '127.0.0.1', () => {
      server.close(() => {
        resolve(true);
      });
    });
  });
}
