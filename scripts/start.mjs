// `npm start`: builds what is missing, then serves in this very process, so that signals reach it.
await import('./build.mjs');
await import('../dist/src/server.js');
