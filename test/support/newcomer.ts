import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import { readDocument, ROOT } from './documents.ts';
import { bareEnvironment } from './environment.ts';
import { freePort } from './free-port.ts';
import { readBlocks, type Block } from './markdown.ts';
import { until } from './until.ts';

/** The ports in the documents. Each is replaced by a free one, because it may be in use here. */
const PORTS = ['3000', '9464', '3001', '9465', '4000', '4181', '4182'];

/**
 * npm without a registry: an install links to the packages that `npm ci` has installed in this checkout, and a packed
 * archive is unpacked. All other commands run the real npm.
 */
const NPM = `#!/usr/bin/env bash
set -euo pipefail
modules='${join(ROOT, 'node_modules')}'
case $1 in
  ci)
    ln -s "$modules" node_modules
    ln -s '${join(ROOT, 'test/typed-client/node_modules')}' test/typed-client/node_modules
    ;;
  install)
    for name in "\${@:2}"; do
      case $name in
        -*) ;;
        *.tgz)
          package=$(sed -E 's/.*latchkey-([a-z]+).*/\\1/' <<< "$name")
          mkdir -p "node_modules/@latchkey/$package" node_modules/.bin
          tar -xzf "$name" --strip-components=1 -C "node_modules/@latchkey/$package"
          if [ "$package" = verifier ]; then ln -s "$modules" node_modules/@latchkey/verifier/node_modules; fi
          if [ "$package" = agent ]; then
            chmod +x node_modules/@latchkey/agent/dist/main.js
            ln -s ../@latchkey/agent/dist/main.js node_modules/.bin/latchkey-agent
          fi
          ;;
        *) mkdir -p node_modules && ln -s "$modules/$name" "node_modules/$name" ;;
      esac
    done
    ;;
  *)
    PATH=\${PATH#*:}
    exec npm "$@"
    ;;
esac
`;

export interface Newcomer {
  /** The folder that the shells call HOME. */
  home: string;
  /** The port that replaces one of a document. */
  portOf(port: string): string;
  /** The output of the terminals that run services. */
  log(): string;
  /**
   * Pastes the shell blocks of a document, each section into a new shell in the project's folder.
   * @param only the heading of the one section to follow
   * @returns what each section printed, by its heading
   * @throws Error with the block that failed
   */
  follow(path: string, only?: string): Promise<Map<string, string>>;
  /** Presses Ctrl-C in the terminal that a section has opened, and waits for its end. */
  interrupt(section: string): Promise<void>;
}

/**
 * A fresh copy of the files in Git, with their build.
 * @param words of the documents that have another value here, such as the address of a store.
 */
export async function aNewcomer(t: Test, words: Readonly<Record<string, string>> = {}): Promise<Newcomer> {
  const scratch = mkdtempSync(join(tmpdir(), 'latchkey-newcomer-'));
  // Under root the embedded PostgreSQL runs as another user.
  chmodSync(scratch, 0o755);
  const folder = copyProject(join(scratch, 'latchkey'));
  const home = join(scratch, 'home');
  for (const name of ['bin', 'home']) mkdirSync(join(scratch, name));
  writeFileSync(join(scratch, 'bin/npm'), NPM, { mode: 0o755 });
  const ports = new Map<string, string>();
  for (const port of PORTS) ports.set(port, String(await freePort()));

  const env = {
    ...bareEnvironment(),
    // The default: .data in the project's folder.
    DATA_DIR: '',
    HOME: home,
    LOG_REQUESTS: 'all',
    PATH: `${join(scratch, 'bin')}:${process.env.PATH ?? ''}`,
    PORT: ports.get('3000'),
    OPS_PORT: ports.get('9464'),
    AGENT_LISTEN: `127.0.0.1:${ports.get('4181')}`,
    AGENT_OPS_LISTEN: `127.0.0.1:${ports.get('4182')}`,
  };
  const terminals: { section: string; process: ChildProcess }[] = [];
  let log = '';
  t.teardown(async () => {
    await Promise.all(terminals.map((each) => endTerminal(each.process)));
    rmSync(scratch, { recursive: true, force: true });
  });

  const adapt = (text: string) => {
    const ported = text.replaceAll(
      /(?<=localhost:|listen\(|PORT=)\d{4}\b/g,
      (port) => ports.get(port) ?? port,
    );
    return Object.entries(words).reduce((adapted, [word, here]) => adapted.replaceAll(word, here), ported);
  };

  const openTerminal = async ({ text, mark, section }: Block, cwd: string) => {
    const terminal = spawn('bash', ['-euo', 'pipefail', '-c', adapt(text)], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    terminals.push({ section, process: terminal });
    for (const stream of [terminal.stdout, terminal.stderr])
      stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
    const url = adapt(mark?.value ?? '');
    await until(async () => {
      if (terminal.exitCode !== null) throw new Error(`${text} ended:\n${log}`);
      return fetch(url).then(
        () => true,
        () => false,
      );
    });
  };

  return {
    home,
    portOf: (port) => ports.get(port) ?? port,
    log: () => log,
    async interrupt(section) {
      const terminal = terminals.find((each) => each.section === section);
      if (!terminal) throw new Error(`${section} has opened no terminal`);
      await endTerminal(terminal.process, 'SIGINT');
    },
    async follow(path, only) {
      const blocks = readBlocks(readDocument(path)).filter(
        ({ language, mark, section }) =>
          language === 'sh' && mark?.name !== 'not run' && (only === undefined || section === only),
      );
      const printed = new Map<string, string>();
      for (const section of new Set(blocks.map((block) => block.section))) {
        const shell = openShell(folder, env);
        let output = '';
        for (const block of blocks.filter((each) => each.section === section)) {
          if (block.mark?.name === 'terminal') await openTerminal(block, await shell.directory());
          else output += await shell.paste(adapt(block.text));
        }
        shell.end();
        printed.set(section, output);
      }
      return printed;
    },
  };
}

/** Copies the files that Git lists in this checkout, and the build. */
function copyProject(folder: string): string {
  const list = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const { stdout } = spawnSync('git', list, { cwd: ROOT, encoding: 'utf8' });
  // The list still holds files deleted without a commit, and it ends with an empty name.
  const names = stdout.split('\0').filter((name) => name !== '' && existsSync(join(ROOT, name)));
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    copyFileSync(join(ROOT, name), join(folder, name));
  }
  // Keeps times to the nanosecond: the build compares them. Node's own copy rounds them.
  const copy = `cp -a dist "$1" && cp -a src/generated "$1/src"
    for package in packages/*; do cp -a "$package/dist" "$1/$package"; done`;
  const { status } = spawnSync('bash', ['-ec', copy, 'copy', folder], { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) throw new Error('the build cannot be copied');
  return folder;
}

/** A shell that keeps its variables and folder between blocks, and ends at the first failure. */
function openShell(cwd: string, env: NodeJS.ProcessEnv) {
  const shell = spawn('bash', ['-euo', 'pipefail'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  let isOver = false;
  shell.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  shell.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  shell.stdin.on('error', () => undefined);
  shell.once('close', () => (isOver = true));
  let count = 0;

  /** Programs in the block get no standard input, or they would read the blocks that follow. */
  async function paste(text: string): Promise<string> {
    const end = `== end of block ${++count}`;
    const since = output.length;
    shell.stdin.write(`{\n${text}\n} </dev/null\necho\necho '${end}'\n`);
    await until(() => isOver || output.includes(end));
    if (!output.includes(end)) throw new Error(`a block failed:\n${text}\n${output.slice(since)}${errors}`);
    return output.slice(since, output.indexOf(end));
  }

  return {
    paste,
    directory: async () => (await paste('pwd')).trim(),
    end: () => shell.stdin.end(),
  };
}

/** Ends all processes started in it. */
async function endTerminal(terminal: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (terminal.exitCode !== null || terminal.signalCode !== null || terminal.pid === undefined) return;
  const exited = new Promise((resolve) => terminal.once('close', resolve));
  process.kill(-terminal.pid, signal);
  await exited;
}
