// `npm run docs` writes docs/configuration.md from the configuration schema, docs/audit.md from the types of audit
// events, and the table in docs/clients.md from the rows that clients are tested with; tests compare them.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
await import('./build.mjs');
const { configurationDocument } = await import('../dist/test/support/configuration-document.js');
const { auditDocument } = await import('../dist/test/support/audit-document.js');
const { clientsDocument } = await import('../dist/packages/client/test/clients-document.js');
writeFileSync(join(root, 'docs/configuration.md'), await configurationDocument());
writeFileSync(join(root, 'docs/audit.md'), await auditDocument());
const clients = join(root, 'docs/clients.md');
writeFileSync(clients, await clientsDocument(readFileSync(clients, 'utf8')));
