/* global history, location */

/** The section in which users see, change and prove their e-mail address: docs/api.md#the-e-mail-address. */
export function makeAddress({ client, byId, onSubmit, withRecentLogin }) {
  const [address, pending, request] = ['address', 'pending', 'request-mail'].map(byId);
  const [change, proof] = ['change-address', 'prove-address'].map(byId);
  /** The request that counts. */
  let reading = null;
  let isPending = false;

  // From the link of a mail. As the default, it stays in the form until a login, and is posted only by the button. The
  // address of the page loses it, because browsers keep and share that.
  proof.elements.verification_token.defaultValue = location.hash.slice(1);
  history.replaceState(null, '', '/');

  onSubmit(change, async (fields) => {
    if (!(await withRecentLogin(() => client.request('PATCH', '/api/user', fields)))) return;
    change.reset();
    await read();
  });
  onSubmit(proof, async ({ verification_token }) => {
    const body = { verification_token: verification_token.trim() };
    if (!(await withRecentLogin(() => prove(body)))) return;
    proof.elements.verification_token.defaultValue = '';
    proof.reset();
    await read();
  });
  onSubmit(request, () => client.request('POST', '/api/user/email-verification'));

  /** A new address is proved by a session of its account: if it was mistyped, a stranger has the mail. */
  async function prove(body) {
    if (isPending)
      try {
        return await client.request('POST', '/api/user/email', body);
      } catch (error) {
        // Perhaps of the mail to the present address.
        if (error.code !== 'invalid_verification_token') throw error;
      }
    return client.request('POST', '/api/auth/email-verification', body);
  }

  async function read() {
    const asked = (reading = client.request('GET', '/api/user/email'));
    const answer = await asked;
    // Meanwhile another user may have signed in.
    if (asked !== reading) return;
    isPending = Boolean(answer.pending);
    request.hidden = answer.verified;
    address.textContent = `${answer.email} is ${answer.verified ? 'confirmed' : 'not confirmed'}.`;
    pending.textContent = isPending ? `${answer.pending} takes its place once you confirm it.` : '';
  }

  function clear() {
    reading = null;
    isPending = false;
    request.hidden = true;
    for (const each of [address, pending]) each.textContent = '';
  }

  return { read, clear };
}
