import { mkdirSync, writeFileSync, chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';
import type { Containers } from './container.ts';
import { aSecret, KEYS } from './keys.ts';
import { until } from './until.ts';

/** The output of `podman image inspect`. */
export interface ImageFacts {
  Size: number;
  Config: { User: string; Env: string[]; Cmd: string[]; StopSignal: string };
  Labels: Record<string, string>;
  Healthcheck: { Test: string[] };
}

export async function inspectImage(engine: Containers, image: string): Promise<ImageFacts> {
  const { output } = await engine.podman('image', 'inspect', image);
  const [facts] = JSON.parse(output) as [ImageFacts];
  return facts;
}

/** Starts a container that runs until the test ends. @returns its id. */
export async function startContainer(
  t: Test,
  engine: Containers,
  env: Record<string, string>,
  options: string[] = [],
  command: string[] = [],
): Promise<string> {
  const { code, output } = await engine.run(env, ['--detach', ...options], command);
  if (code !== 0) throw new Error(output);
  const id = output.trim().split('\n').at(-1) ?? '';
  t.teardown(() => engine.podman('rm', '--force', '--time', '0', id));
  return id;
}

/** Resolves once the container's service is ready. @throws Error with its log if it ended. */
export async function containerReady(
  engine: Containers,
  id: string,
  opsPort: number,
  host = '127.0.0.1',
): Promise<void> {
  await until(async () => {
    const answer = await fetch(`http://${host}:${opsPort}/health/ready`).catch(() => null);
    if (answer?.status === 200) return true;
    const { output } = await engine.podman('inspect', '--format', '{{.State.Running}}', id);
    if (output.trim() !== 'true') throw new Error((await engine.podman('logs', id)).output);
    return false;
  });
}

/** Stops it like an orchestrator: SIGTERM, then SIGKILL after a timeout. @returns its exit code: 137 if killed. */
export async function stopContainer(engine: Containers, id: string, seconds: number): Promise<number> {
  await engine.podman('stop', '--time', String(seconds), id);
  return Number((await engine.podman('inspect', '--format', '{{.State.ExitCode}}', id)).output);
}

/** Runs JavaScript in a running container. @returns its output, parsed as JSON. */
export async function evaluate<Value>(engine: Containers, id: string, script: string): Promise<Value> {
  const { code, output } = await engine.podman('exec', id, 'node', '-p', `JSON.stringify(${script})`);
  if (code !== 0) throw new Error(output);
  return JSON.parse(output) as Value;
}

/** Keys as a Secret mounts them, readable for the image's user. */
export function keyFolder(t: Test): string {
  const folder = testFolder(t);
  mkdirSync(join(folder, 'signing'));
  writeFileSync(join(folder, 'signing/0001.pem'), KEYS.ES256());
  writeFileSync(join(folder, 'refresh-token-secret'), aSecret());
  chmodSync(folder, 0o755);
  return folder;
}

export interface ImageFile {
  path: string;
  /** A program or a library (ELF). */
  isProgram: boolean;
}

const LIST = `
const fs = require('fs');
const files = [];
(function walk(folder) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = folder + entry.name;
    if (['/proc', '/sys', '/dev', '/run'].includes(path)) continue;
    if (entry.isDirectory()) walk(path + '/');
    else if (entry.isFile())
      files.push({ path, isProgram: fs.readFileSync(path).subarray(0, 4).toString('latin1') === '\\x7fELF' });
  }
})('/');
console.log(JSON.stringify(files));
`;

/** Every file in the image, as Node in it finds them. */
export async function filesOf(engine: Containers): Promise<ImageFile[]> {
  const { code, output } = await engine.run({}, ['--rm', '--user', '0:0'], ['node', '-e', LIST]);
  if (code !== 0) throw new Error(output);
  return JSON.parse(output) as ImageFile[];
}
