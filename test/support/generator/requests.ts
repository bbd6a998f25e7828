/** A whole request as text. Built once and sent many times, it costs the generator nothing. */
export function requestText(
  line: string,
  {
    token,
    headers = {},
    body = '',
  }: { token?: string; headers?: Record<string, string>; body?: string } = {},
): string {
  const all = {
    Host: 'bench',
    'User-Agent': 'bench',
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    ...headers,
    ...(body !== '' && { 'Content-Length': String(Buffer.byteLength(body)) }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${line} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
}

export function jsonRequest(line: string, body: object): string {
  return requestText(line, {
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
}

export function verifyRequest(token: string): string {
  return requestText('GET /api/auth/verify', { token });
}

/** The refresh that follows: the same request with the new token of the answer. */
export function nextRefresh(request: string, body: string): string {
  const { refresh_token: token } = JSON.parse(body) as { refresh_token: string };
  return request.replace(/(?<=Bearer )[^\r]+/, token);
}
