/** Each right over accounts, with the requests that need it. */
export const ACCOUNT_RIGHTS = (id: number): Record<string, [line: string, body?: object][]> => ({
  'users.read': [
    ['GET /api/users'],
    [`GET /api/users/${id}`],
    [`GET /api/users/${id}/tokens`],
    [`GET /api/users/${id}/factors`],
  ],
  'users.write': [
    ['POST /api/users', {}],
    [`PATCH /api/users/${id}`, { name: 'B' }],
    [`DELETE /api/users/${id}`],
    [`DELETE /api/users/${id}/tokens`],
    [`POST /api/users/${id}/invitation`],
  ],
  'users.email': [[`GET /api/users/${id}/email`]],
  'users.factors': [[`DELETE /api/users/${id}/factors`]],
  mails: [
    ['POST /api/users/mails', {}],
    ['POST /api/users/mails/undeliverable', { email: 'nobody@example.com' }],
    ['DELETE /api/users/mails/1'],
  ],
  'users.reset': [
    [`POST /api/users/${id}/password-reset`],
    [`PATCH /api/users/${id}`, { email: 'other@example.com' }],
    [`PATCH /api/users/${id}`, { email_verified: true }],
  ],
});
