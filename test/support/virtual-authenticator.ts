import type { Page } from 'playwright-core';

/**
 * An authenticator that Chromium simulates for a page, with a synced passkey’s flags. With `touch`, it answers what begins
 * then, autofill too; what has begun before stays open until the page ends it.
 */
export async function aVirtualAuthenticator(page: Page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      ctap2Version: 'ctap2_1',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: false,
      defaultBackupEligibility: true,
      defaultBackupState: true,
    },
  });
  const deleted: string[] = [];
  devtools.on('WebAuthn.credentialDeleted', ({ credentialId }) => {
    deleted.push(inBase64url(credentialId));
  });
  return {
    /** The ids of passkeys that a signal of the page has removed. */
    deleted,
    async credentialIds(): Promise<string[]> {
      const { credentials } = await devtools.send('WebAuthn.getCredentials', { authenticatorId });
      return credentials.map(({ credentialId }) => inBase64url(credentialId));
    },
    touch: (enabled: boolean) =>
      devtools.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled }),
    /** Whether the user gives the right PIN or finger. */
    verify: (isUserVerified: boolean) =>
      devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }),
  };
}

function inBase64url(base64: string): string {
  return Buffer.from(base64, 'base64').toString('base64url');
}
