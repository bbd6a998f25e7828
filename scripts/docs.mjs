// `npm run docs` writes docs/configuration.md from the configuration schema, and docs/audit.md from the types of
// audit events; tests compare them.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
await import('./build.mjs');
const { configurationDocument } = await import('../dist/test/support/configuration-document.js');
const { auditDocument } = await import('../dist/test/support/audit-document.js');
writeFileSync(join(root, 'docs/configuration.md'), await configurationDocument());
writeFileSync(join(root, 'docs/audit.md'), await auditDocument());
