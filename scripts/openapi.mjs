// `npm run openapi` writes docs/openapi.json, the document that the service serves at /docs/json, which a
// test compares, and what @latchkey/client has of it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clientOperations } from './client-operations.mjs';

const root = new URL('..', import.meta.url).pathname;
await import('./build.mjs');
const { openApiDocument } = await import('../dist/test/support/openapi.js');
const { BROWSER_PATHS } = await import('../dist/src/http/plugins/cors.js');
const document = await openApiDocument();
writeFileSync(join(root, 'docs/openapi.json'), `${JSON.stringify(document, null, 2)}\n`);
for (const [name, text] of Object.entries(await clientOperations(document, BROWSER_PATHS)))
  writeFileSync(join(root, name), text);
