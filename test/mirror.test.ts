import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { UNMIRRORED } from './support/unmirrored.ts';

const ROOT = new URL('../../', import.meta.url).pathname;

const sources = readdirSync(join(ROOT, 'src'), { recursive: true })
  .map(String)
  .filter((name) => name.endsWith('.ts') && !name.startsWith('generated'));

test('every source with code has a test at the mirrored path, or is listed with the test that covers it', (t) => {
  const untested = sources.filter((name) => hasCode(name) && !isMirrored(name) && !(name in UNMIRRORED));
  t.ok(sources.some(hasCode), 'some source has code');
  t.strictSame(untested, []);
  t.end();
});

test('the list of sources without a mirror holds nothing else', (t) => {
  for (const [name, covering] of Object.entries(UNMIRRORED)) {
    t.ok(sources.includes(name) && hasCode(name), `src/${name} exists and has code`);
    t.notOk(isMirrored(name), `src/${name} has no test at the mirrored path`);
    t.ok(existsSync(join(ROOT, covering)), `${covering} exists`);
  }
  t.end();
});

/** Whether anything is left of a source when its types are gone. */
function hasCode(name: string): boolean {
  const compiled = readFileSync(join(ROOT, 'dist/src', name.replace(/\.ts$/, '.js')), 'utf8');
  return compiled.replace(/^(?:export \{\};|\/\/.*|import '.*';)$/gm, '').trim() !== '';
}

function isMirrored(name: string): boolean {
  return existsSync(join(ROOT, 'test', name.replace(/\.ts$/, '.test.ts')));
}
