import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call } from '../../support/client.ts';
import { modulesMissing, python } from '../../support/python.ts';

/** Prints what Authlib says against each member of the metadata. */
const VALIDATE = `
import json, sys
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

metadata = AuthorizationServerMetadata(json.load(sys.stdin))
for key in metadata.REGISTRY_KEYS:
    try:
        getattr(metadata, "validate_" + key)()
    except ValueError as error:
        print(error)
`;

function complaints(metadata: object): string[] {
  const { status, stdout, stderr } = python(['-c', VALIDATE], { input: JSON.stringify(metadata) });
  if (status !== 0) throw new Error(stderr);
  return stdout.split('\n').filter((line) => line !== '');
}

test('Authlib finds the metadata valid (RFC 8414)', { skip: modulesMissing('authlib') }, async (t) => {
  for (const ISSUER of ['https://auth.example', 'https://example.com/auth']) {
    const target = await buildTestApp(t, { env: { ISSUER } });
    const metadata: Record<string, unknown> = (
      await call(target, 'GET /.well-known/oauth-authorization-server')
    ).json();
    t.strictSame(complaints(metadata), []);
  }
});
