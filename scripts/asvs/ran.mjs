// `node scripts/asvs/ran.mjs DOCUMENT RAN` fails for each test that DOCUMENT cites and that RAN does not contain. RAN
// holds the passed tests of a run (TEST_RAN, see scripts/test.mjs).
import { existsSync, readFileSync } from 'node:fs';
import { readDocument, withoutStore } from './document.mjs';

const [document = 'docs/asvs.md', record = ''] = process.argv.slice(2);
const { citations } = readDocument(readFileSync(document, 'utf8'));
const lines = existsSync(record) ? readFileSync(record, 'utf8').split('\n') : [];
const ran = new Set(lines.map(withoutStore));

const missing = citations.filter(({ file, name }) => !ran.has(`${file}\t${name}`));
for (const { label, file, name } of missing)
  process.stdout.write(`${label} did not pass in this run: ${file} › ${name}\n`);
process.stdout.write(`${citations.length} cited tests, ${missing.length} of them did not pass in this run\n`);
process.exitCode = missing.length === 0 && citations.length > 0 ? 0 : 1;
