import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { EVENTS, type EventName } from '../../src/domain/audit/event.ts';
import { auditDocument, exampleOf } from '../support/audit-document.ts';
import { problemsOf } from '../support/audit-schema.ts';

test('docs/audit.md equals the output of npm run docs', async (t) => {
  t.equal(readFileSync('docs/audit.md', 'utf8'), await auditDocument());
});

test('each example line is one that its schema accepts, and a wrong line is refused', (t) => {
  for (const name of Object.keys(EVENTS) as EventName[]) {
    const line = exampleOf(name);
    t.strictSame(problemsOf(line), [], name);
    t.ok(JSON.stringify(line).length < 4096, 'a pipe takes the line in one piece');
    t.notSame(problemsOf({ ...line, details: { ...line.details, password: 'x' } }), []);
    t.notSame(problemsOf({ ...line, address: undefined }), []);
  }
  t.end();
});
