/* global document, DOMException, FormData, localStorage */
import { createClient, LatchkeyError } from '/client/main.js';
import { logInWithPasskey, offerPasskey } from '/client/passkey.js';
import { makeAddress } from '/address.js';
import { makeFactors } from '/factors.js';

const client = createClient({ storage: () => localStorage });
const byId = (id) => document.getElementById(id);
const [message, tokens, created, again, second] = ['message', 'tokens', 'created', 'again', 'second'].map(
  byId,
);
const address = makeAddress({ client, byId, onSubmit, withRecentLogin });
const factors = makeFactors({ client, byId, onSubmit, withRecentLogin });
/** The request for the list that counts: the last one. */
let listing = null;
/** Of the login whose second step is asked for. */
let loginToken = '';

onSubmit(byId('login'), logIn);
onSubmit(byId('signup'), client.signup);
onSubmit(byId('login-again'), logIn);
onSubmit(byId('second-step'), ({ code }) =>
  client.completeLogin({ login_token: loginToken, ...proofOf(code) }),
);
for (const form of document.querySelectorAll('.passkey')) onSubmit(form, logInByPasskey);
onSubmit(byId('logout'), () => client.logout(), 'You are signed out here, but the session may go on: ');
onSubmit(
  byId('everywhere'),
  () => client.logout({ everywhere: true }),
  'You are signed out here, but the other sessions may go on: ',
);
onSubmit(byId('list'), list);
onSubmit(byId('create'), async (fields) => {
  const token = await withRecentLogin(() => client.request('POST', '/api/auth/llt', fields));
  if (!token) return;
  await list();
  created.textContent = `It is not shown again: ${token.longlived_token}`;
});
client.onChange(show);
show();

/** Also after a login or a logout in another tab. Until storage was read, it shows neither. */
function show() {
  const { session } = client;
  byId('signed-out').hidden = session !== null;
  byId('signed-in').hidden = !session;
  byId('user').textContent = session?.user.name ?? '';
  created.textContent = '';
  listing = null;
  tokens.replaceChildren();
  address.clear();
  factors.clear();
  for (const dialog of [again, second]) dialog.close();
  for (const form of document.forms) form.reset();
  // A logout in another tab refuses them too.
  if (session)
    Promise.all([list(), address.read(), factors.list()]).catch((error) =>
      client.session ? tell(message, error) : null,
    );
  else if (session === null) offer();
}

/** In the autofill of the username, until somebody is signed in. */
function offer() {
  offerPasskey(client, { onError: (error) => tell(message, error) });
}

/** A dialog of the browser ends the offer. */
async function logInByPasskey() {
  try {
    await logInWithPasskey(client);
  } catch (error) {
    if (!client.session) offer();
    throw error;
  }
}

async function list() {
  const asked = (listing = client.request('GET', '/api/user/tokens'));
  const answer = await asked;
  // Meanwhile another user may have signed in.
  if (asked === listing) tokens.replaceChildren(...answer.tokens.map(itemOf));
}

function itemOf({ id, type, name, current }) {
  const item = document.createElement('li');
  // As text, never as HTML: a thief who logs in chooses the name of a device.
  item.append(type === 'llt' ? 'Long-lived token: ' : 'Session: ', name, ' ');
  if (current) item.append('(this one)');
  else item.append(endForm(id, name));
  return item;
}

function endForm(id, name) {
  const form = document.createElement('form');
  const button = document.createElement('button');
  button.append('End');
  button.ariaLabel = `End ${name}`;
  form.append(button);
  onSubmit(form, async () => {
    await client.request('DELETE', `/api/auth?id=${id}`);
    await list();
  });
  return form;
}

/** Logs in. If the account has a second factor, the rest is done by the form of the second step. */
async function logIn(fields) {
  try {
    await client.login(fields);
  } catch (error) {
    if (error.code !== 'second_factor_required') throw error;
    loginToken = error.problem.login_token;
    byId('second-step').reset();
    second.showModal();
  }
}

/** Only an app's code is six digits; apps show it in two groups. */
function proofOf(typed) {
  const digits = typed.replace(/\s/g, '');
  return /^\d{6}$/.test(digits) ? { code: digits } : { recovery_code: typed };
}

/** Does the work, after a new login if Latchkey demands one. @returns undefined if the user has cancelled that */
async function withRecentLogin(work) {
  const { session } = client;
  try {
    return await work();
  } catch (error) {
    if (error.code !== 'login_too_old') throw error;
    return (await logInAgain(session)) ? work() : undefined;
  }
}

/** Asks for the password. @returns whether the user has logged in again, here or in another tab */
async function logInAgain({ id, user }) {
  const form = byId('login-again');
  form.elements.password.value = '';
  form.elements.username.value = user.username;
  again.showModal();
  await new Promise((resolve) => again.addEventListener('close', resolve, { once: true }));
  return client.session?.user.id === user.id && client.session.id !== id;
}

/** Does the work with the fields of the form, once at a time, and shows its error. */
function onSubmit(form, work, prefix = '') {
  const buttons = form.querySelectorAll('button');
  const alert = (form.closest('dialog') ?? form).querySelector('[role=alert]') ?? message;
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    alert.textContent = '';
    // With the value of the button, which a disabled one would not have.
    const fields = Object.fromEntries(new FormData(form, event.submitter));
    for (const button of buttons) button.disabled = true;
    try {
      await work(fields);
    } catch (error) {
      tell(alert, error, prefix);
    }
    for (const button of buttons) button.disabled = false;
  });
}

function tell(alert, error, prefix = '') {
  // A DOMException comes from the browser, for example if the user cancels the dialog for a passkey.
  if (!(error instanceof LatchkeyError || error instanceof DOMException)) throw error;
  const fields = (error.errors ?? []).map(({ path, message }) => `${path.slice(1)} ${message}`);
  const wait = error.retryAfter ? [`try again in ${error.retryAfter} s`] : [];
  alert.textContent = prefix + [error.message, ...fields, ...wait].join('; ');
}
