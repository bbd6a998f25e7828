import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type * as generator from 'openapi-typescript';
import type { OpenAPI3 } from 'openapi-typescript';
import type { Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import type { Service } from '../support/service.ts';
import { typeErrors } from '../support/type-errors.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/** From the workspace's own packages: this file runs below dist. */
const { default: openapiTS, astToString } = createRequire(join(ROOT, 'test/typed-client/package.json'))(
  'openapi-typescript',
) as typeof generator;

/** The original code, and the mistake that replaces it. */
export type Mistake = [name: string, find: string, replace: string];

/**
 * Generates a TypeScript client from the served document, and compiles a program that uses it. The test fails if the
 * program has type errors, or if it compiles with one of the mistakes.
 * @returns a function that runs the program with these arguments and gives its output, as parsed JSON.
 */
export async function compileWithClient(t: Test, { url }: Service, program: string, mistakes: Mistake[]) {
  const document = (await (await fetch(`${url}/docs/json`)).json()) as OpenAPI3;
  const folder = await generate(t, document);
  const programs = mistakes.map(([, find, replace]) => planted(program, find, replace));
  const [errors = [], ...found] = compile(folder, [program, ...programs]);
  t.strictSame(errors, [], 'compiles');
  for (const [i, [name]] of mistakes.entries()) {
    t.ok(
      (found[i] ?? []).length > 0,
      `does not compile with a mistake: ${name}: ${found[i]?.[0] ?? 'it does'}`,
    );
  }

  return async (args: string[]): Promise<unknown> => {
    const child = spawn(process.execPath, [join(folder, '0.js'), url, ...args], {
      env: bareEnvironment(),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number];
    t.equal(code, 0, 'the program runs to its end');
    return JSON.parse(output);
  };
}

function planted(program: string, find: string, replace: string): string {
  if (program.split(find).length !== 2) throw new Error(`not exactly once in the program: ${find}`);
  return program.replace(find, replace);
}

/** A folder with the generated types that resolves our packages. */
async function generate(t: Test, document: OpenAPI3): Promise<string> {
  const folder = testFolder(t);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'schema.d.ts'), astToString(await openapiTS(document)));
  t.match(readFileSync(join(folder, 'schema.d.ts'), 'utf8'), /interface paths/);
  return folder;
}

/** Compiles programs to 0.js, 1.js and so on. @returns the errors of each. */
function compile(folder: string, sources: string[]): string[][] {
  const files = sources.map((_, i) => `${i}.ts`);
  for (const [i, source] of sources.entries()) writeFileSync(join(folder, `${i}.ts`), source);
  const errors = typeErrors(folder, files, ['node']);
  return files.map((name) =>
    errors.filter(({ file }) => file === name).map(({ message }) => message.slice(0, 200)),
  );
}
