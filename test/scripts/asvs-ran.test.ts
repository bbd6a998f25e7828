import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test, type Test } from 'tap';

const SCRIPT = join(new URL('../../../', import.meta.url).pathname, 'scripts/asvs/ran.mjs');

const DOCUMENT = `# Answers

T9 is no citation here: test/http/a.test.ts › in a sentence

\`\`\`text
T1 test/http/a.test.ts › signs in
T2 test/http/b.test.ts › ends what it began (twice)
\`\`\`
`;

const BOTH = 'test/http/a.test.ts\tsigns in\ntest/http/b.test.ts\tends what it began (twice)\n';

test('passes if every cited test passed', (t) => {
  const { status, stdout } = run(t, DOCUMENT, `${BOTH}test/http/c.test.ts\tanother\n`);
  t.equal(stdout, '2 cited tests, 0 of them did not pass in this run\n');
  t.equal(status, 0);
  t.end();
});

test('a test counts if it passed on one store', (t) => {
  t.equal(run(t, DOCUMENT, BOTH.replace('signs in', 'signs in (Redis)')).status, 0);
  t.equal(run(t, DOCUMENT, BOTH.replace('signs in', 'signs in (in-process store)')).status, 0);
  t.equal(run(t, DOCUMENT, BOTH.replace('signs in', 'signs in (later)')).status, 1);
  t.end();
});

test('fails and names each cited test that did not pass', (t) => {
  const elsewhere = BOTH.replace('http/a', 'http/c');
  for (const record of [elsewhere, BOTH.replace('signs in', 'signs'), BOTH.split('\n').slice(1).join('\n')]) {
    const { status, stdout } = run(t, DOCUMENT, record);
    t.equal(status, 1);
    t.equal(
      stdout,
      'T1 did not pass in this run: test/http/a.test.ts › signs in\n2 cited tests, 1 of them did not pass in this run\n',
    );
  }
  t.end();
});

test('fails without a record, and for a document that cites nothing', (t) => {
  t.match(run(t, DOCUMENT, null), { status: 1, stdout: /2 of them did not pass/ });
  t.match(run(t, '# Answers\n', BOTH), { status: 1, stdout: /^0 cited tests/ });
  t.end();
});

function run(t: Test, document: string, record: string | null) {
  const folder = t.testdir({ 'asvs.md': document, ...(record !== null && { ran: record }) });
  const { status, stdout } = spawnSync(process.execPath, [SCRIPT, 'asvs.md', 'ran'], {
    cwd: folder,
    encoding: 'utf8',
  });
  return { status, stdout };
}
