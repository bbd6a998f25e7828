import type { RequestListener } from 'node:http';
import { answerProblem } from './problems.ts';

interface Parts {
  state: () => 'starting' | 'ready' | 'draining';
  exposition: () => string;
}

/** Health as Latchkey's, and metrics. Once ready, an outage of Latchkey changes nothing: the agent answers 503 itself. */
export function makeOps({ state, exposition }: Parts): RequestListener {
  return ({ method = '', url = '' }, response) => {
    const send = (status: number, type: string, body: string) =>
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
    const json = (status: number, body: object) => send(status, 'application/json', JSON.stringify(body));
    const [path] = url.split('?');
    if (!['GET', 'HEAD'].includes(method))
      answerProblem(response, 'method_not_allowed', { allow: 'GET, HEAD' });
    else if (path === '/health/live') json(200, { status: 'live' });
    else if (path === '/health/ready') json(state() === 'ready' ? 200 : 503, { status: state() });
    else if (path === '/metrics') send(200, 'text/plain; version=0.0.4; charset=utf-8', exposition());
    else answerProblem(response, 'not_found');
  };
}
