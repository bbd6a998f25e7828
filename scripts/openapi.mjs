// `npm run openapi` writes docs/openapi.json, the document that the service serves at /docs/json. A test compares them.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
await import('./build.mjs');
const { openApiDocument } = await import('../dist/test/support/openapi.js');
writeFileSync(join(root, 'docs/openapi.json'), `${JSON.stringify(await openApiDocument(), null, 2)}\n`);
