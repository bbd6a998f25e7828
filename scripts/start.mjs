// `npm start`: builds if needed, then serves in this process, so that signals reach it.
import { endWithParent } from './end-with-parent.mjs';

endWithParent();
await import('./build.mjs');
await import('../dist/src/server.js');
