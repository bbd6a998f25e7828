import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';
import type { Environment } from '../../src/config/config.ts';
import { bareEnvironment } from './environment.ts';
import type { Launch } from './service.ts';

export interface Ended {
  code: number | null;
  output: string;
}

export interface Containers {
  /** Runs a program in the image, hardened as in production, and waits for its end. */
  run(env: Record<string, string>, options: string[], command?: string[]): Promise<Ended>;
  podman(...args: string[]): Promise<Ended>;
}

/** A read-only file system, no capabilities, no new privileges, 768 MiB. */
const HARDENED = [
  '--network',
  'host',
  '--pull',
  'never',
  '--no-healthcheck',
  '--read-only',
  '--read-only-tmpfs=false',
  '--cap-drop',
  'ALL',
  '--security-opt',
  'no-new-privileges',
  '--memory',
  '768m',
];

/** The programs that suites need to build and run the image. */
export const CONTAINER_TOOLS = ['buildah', 'git', 'mmdebstrap', 'podman', 'runc'];

/** Builds the image of the Dockerfile in `folder`, for tests to run. */
export async function buildImage(folder: string, image: string): Promise<void> {
  const { code, output } = await bash([join(folder, 'test/container/build-image.sh'), folder, image]);
  if (code !== 0) throw new Error(`the image was not built:\n${output}`);
}

/**
 * Podman with runc: its default runtime does not start where cgroups are mixed, as inside another container.
 * @param store a folder for its images, if it must not see this machine’s
 */
export function podmanEnvironment(t: Test, store?: string): NodeJS.ProcessEnv {
  const folder = testFolder(t);
  const config = join(folder, 'containers.conf');
  writeFileSync(
    config,
    [
      '[containers]',
      'default_ulimits=["nofile=1024:1024","nproc=4096:4096"]',
      '[engine]',
      'runtime="runc"',
      'cgroup_manager="cgroupfs"',
      'events_logger="file"',
    ].join('\n'),
  );
  const { XDG_RUNTIME_DIR } = process.env;
  if (store === undefined) return bareEnvironment({ CONTAINERS_CONF: config, XDG_RUNTIME_DIR });
  const storage = join(folder, 'storage.conf');
  // vfs mounts nothing, so the folder can be removed.
  const places = [`graphroot="${store}/images"`, `runroot="${store}/run"`];
  writeFileSync(storage, ['[storage]', 'driver="vfs"', ...places].join('\n'));
  return bareEnvironment({ CONTAINERS_CONF: config, CONTAINERS_STORAGE_CONF: storage, XDG_RUNTIME_DIR });
}

/** How a replica is started in an image. It ends by its process, so the test has to stop it. */
export function launchIn(t: Test, image: string, options: string[]): Launch {
  const podman = podmanEnvironment(t);
  return (env) =>
    spawn('podman', ['run', '--rm', ...HARDENED, ...variablesOf(env), ...options, image], { env: podman });
}

export function containers(t: Test, image: string, env = podmanEnvironment(t)): Containers {
  const podman = (...args: string[]) =>
    ended(spawn('podman', args, { env, stdio: ['ignore', 'pipe', 'pipe'] }));
  return {
    podman,
    run: (env, options, command = []) =>
      podman('run', ...HARDENED, ...variablesOf(env), ...options, image, ...command),
  };
}

function variablesOf(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
}

function bash(args: string[]): Promise<Ended> {
  return ended(spawn('bash', args, { stdio: ['ignore', 'pipe', 'pipe'] }));
}

/** Waits for the end of a program, and reads what it prints. */
export function ended(child: ChildProcessByStdio<null, Readable, Readable>): Promise<Ended> {
  let output = '';
  const read = (chunk: Buffer) => {
    output += chunk.toString();
  };
  child.stdout.on('data', read);
  child.stderr.on('data', read);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      resolve({ code, output });
    });
  });
}
