// Serves the page, the client's modules, and Latchkey at one origin, as a proxy of yours does in production.
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { pipeline } from 'node:stream';

const { LATCHKEY_URL = 'http://localhost:3000', PORT = '5000' } = process.env;
const [PAGE, CLIENT] = [import.meta.url, import.meta.resolve('@latchkey/client')];
const JS = 'text/javascript';
const MODULES = {
  '/page.js': new URL('page.js', PAGE),
  '/address.js': new URL('address.js', PAGE),
  '/factors.js': new URL('factors.js', PAGE),
  '/qr.js': import.meta.resolve('uqr'),
};

http
  .createServer((request, response) => {
    if (request.url.startsWith('/api/')) return forward(request, response);
    const [, module] = /^\/client\/([\w-]+\.js)$/.exec(request.url) ?? [];
    if (module) return send(response, new URL(module, CLIENT), JS);
    if (Object.hasOwn(MODULES, request.url)) return send(response, new URL(MODULES[request.url]), JS);
    // The links of the mails lead to the other two. Browsers send nothing of what is behind the #.
    if (['/', '/verify', '/address'].includes(request.url))
      return send(response, new URL('index.html', PAGE), 'text/html');
    response.writeHead(404).end();
  })
  .listen(Number(PORT), 'localhost', () => console.log(`http://localhost:${PORT}`));

async function send(response, file, type) {
  const content = await readFile(file).catch(() => null);
  // The rest of the policy is in the page. Only a header can forbid frames.
  const policy = { 'content-security-policy': "frame-ancestors 'none'" };
  response.writeHead(content ? 200 : 404, { 'content-type': type, ...policy }).end(content);
}

function forward(request, response) {
  const { method, url, socket } = request;
  const headers = { ...request.headers, 'x-forwarded-for': socket.remoteAddress };
  const onward = http.request(LATCHKEY_URL + url, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    pipeline(answer, response, () => {});
  });
  // To the client, this is a lost answer.
  onward.on('error', () => response.destroy());
  request.pipe(onward);
}
