/* global document */
import { addPasskey, signalPasskeys } from '/client/passkey.js';
import { renderSVG } from '/qr.js';

/** The section in which users see and change their second factor: docs/second-factor.md. */
export function makeFactors({ client, byId, onSubmit, withRecentLogin }) {
  const [factors, left, confirm, recovery] = ['factors', 'codes-left', 'confirm', 'recovery'].map(byId);
  /** The request that counts, and the factors that it has found. */
  let listing = null;
  let found = [];

  const changes = {
    passkey: async (password, name) =>
      showCodes(await withRecentLogin(() => addPasskey(client, { name, ...password }))),
    async app(password) {
      const setup = await post('/totp', password);
      if (!setup) return;
      byId('secret').textContent = setup.secret;
      // As a picture: the page's policy refuses HTML that is made of text.
      byId('qr').src = `data:image/svg+xml,${encodeURIComponent(renderSVG(setup.otpauth_uri))}`;
      confirm.reset();
      confirm.hidden = false;
    },
    codes: async (password) => showCodes(await post('/recovery-codes', password)),
    async removal(password) {
      for (const { id } of found) if (!(await post(`/${id}/removal`, password))) return;
      // So that the browser offers no passkey that is gone.
      await signalPasskeys(client);
    },
  };
  onSubmit(byId('change-factors'), async ({ change, name, ...password }) => {
    await changes[change](password, name);
    byId('change-factors').reset();
    await list();
  });
  onSubmit(confirm, async ({ code }) => {
    const confirmed = await post('/totp/confirm', { code: code.replace(/\s/g, '') });
    if (!confirmed) return;
    clear();
    showCodes(confirmed);
    await list();
  });

  /** @returns undefined if Latchkey demanded a new login, and the user has cancelled it */
  function post(path, body) {
    return withRecentLogin(() => client.request('POST', `/api/user/factors${path}`, body));
  }

  /** Only the first factor comes with recovery codes. */
  function showCodes({ recovery_codes: codes } = {}) {
    if (!codes) return;
    byId('recovery-codes').replaceChildren(...codes.map(itemOf));
    recovery.hidden = false;
  }

  async function list() {
    const asked = (listing = client.request('GET', '/api/user/factors'));
    const answer = await asked;
    // Meanwhile another user may have signed in.
    if (asked !== listing) return;
    found = answer.factors;
    factors.replaceChildren(...found.map(({ name }) => itemOf(name)));
    left.textContent = found.length > 0 ? `${answer.recovery_codes_left} recovery codes are left.` : '';
  }

  /** Secrets leave the page with the session that has asked for them. */
  function clear() {
    listing = null;
    found = [];
    confirm.hidden = recovery.hidden = true;
    byId('qr').removeAttribute('src');
    byId('secret').textContent = left.textContent = '';
    for (const items of [factors, byId('recovery-codes')]) items.replaceChildren();
  }

  return { list, clear };
}

function itemOf(text) {
  const item = document.createElement('li');
  item.append(text);
  return item;
}
