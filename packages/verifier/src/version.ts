/** This package's, which `npm run set-version` writes: runtimes without files cannot read it from package.json. */
export const VERSION = '1.0.0';
