import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import { test, type Test } from 'tap';
import ts from 'typescript';
import { anAccount } from '../support/client.ts';
import { testDatabase } from '../support/postgres.ts';
import { bareEnvironment } from '../support/environment.ts';
import { ready, startService } from '../support/service.ts';
import { MISTAKES, PROGRAM } from '../support/typed-client.ts';
import '../support/watch-leaks.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/** Generates a TypeScript client from the served document, then runs a program that uses it. */
test('a typed client that is generated from the document', async (t) => {
  const { url: databaseUrl } = await testDatabase(t);
  const service = await startService(t, { DATABASE_URL: databaseUrl });
  await ready(service);
  const document = (await (await fetch(`${service.url}/docs/json`)).json()) as OpenAPI3;
  const folder = await generate(t, document);

  const programs = MISTAKES.map(([, find, replace]) => planted(find, replace));
  const [errors = [], ...found] = compile(folder, [PROGRAM, ...programs]);
  t.strictSame(errors, [], 'compiles');
  for (const [i, [name]] of MISTAKES.entries()) {
    t.ok(
      (found[i] ?? []).length > 0,
      `does not compile with a mistake: ${name}: ${found[i]?.[0] ?? 'it does'}`,
    );
  }

  const child = spawn(process.execPath, [join(folder, '0.js'), service.url, anAccount().username], {
    env: bareEnvironment({}),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  t.equal(code, 0, 'the program runs through all operations');
  t.match(JSON.parse(output), {
    user: Number,
    verified: 200,
    types: ['refresh', 'refresh', 'llt'],
    ended: 'logged out',
    code: 'invalid_token',
  });
});

function planted(find: string, replace: string): string {
  if (PROGRAM.split(find).length !== 2) throw new Error(`not exactly once in the program: ${find}`);
  return PROGRAM.replace(find, replace);
}

/** A folder with the generated types that resolves our packages. */
async function generate(t: Test, document: OpenAPI3): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-client-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'schema.d.ts'), astToString(await openapiTS(document)));
  t.match(readFileSync(join(folder, 'schema.d.ts'), 'utf8'), /interface paths/);
  return folder;
}

/** Compiles programs to 0.js, 1.js and so on. @returns the errors of each. */
function compile(folder: string, sources: string[]): string[][] {
  const files = sources.map((source, i) => {
    const file = join(folder, `${i}.ts`);
    writeFileSync(file, source);
    return file;
  });
  const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    types: ['node'],
    strict: true,
    skipLibCheck: true,
  });
  program.emit();
  return files.map((file) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(file))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' ').slice(0, 200)),
  );
}
