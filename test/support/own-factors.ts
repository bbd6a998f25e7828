import { call, type Target } from './client.ts';
import { anApp } from './factors.ts';

export const FACTOR_PASSWORD = { current_password: 'difference engine' };

/** An app that the session has set up, and not confirmed. */
export interface SetUpApp {
  /** Base32. */
  secret: string;
  otpauth_uri: string;
  /** What the app shows now, or some steps later. */
  code: (steps?: number) => string;
}

export async function setUpApp(target: Target, token: string): Promise<SetUpApp> {
  const response = await call(target, 'POST /api/user/factors/totp', { token, payload: FACTOR_PASSWORD });
  if (response.statusCode !== 200) throw new Error(`no set-up: ${response.statusCode} ${response.body}`);
  const answer = response.json<Omit<SetUpApp, 'code'>>();
  return { ...answer, code: anApp(answer.secret) };
}

export function confirmApp(target: Target, token: string, code: string) {
  return call(target, 'POST /api/user/factors/totp/confirm', { token, payload: { code } });
}

/** Both requests. The code of the present step is used up. */
export async function addApp(target: Target, token: string) {
  const app = await setUpApp(target, token);
  const response = await confirmApp(target, token, app.code());
  if (response.statusCode !== 200) throw new Error(`not confirmed: ${response.statusCode} ${response.body}`);
  return { ...app, ...response.json<{ id: number; recovery_codes?: string[] }>() };
}
