import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/**
 * Accepts only JSON in UTF-8 as body. Some clients send its content type on every request, so on a DELETE an empty body
 * counts as none. Elsewhere it is malformed JSON; a GET's body is never read.
 */
function jsonBody(app: FastifyInstance, _options: object, done: () => void): void {
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser(['text/plain', 'application/json']);
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, finish) => {
    if (body.length === 0 && request.method === 'DELETE') {
      finish(null, undefined);
      return;
    }
    let text: string;
    try {
      text = decoder.decode(body);
    } catch {
      finish(
        Object.assign(new Error('not UTF-8'), { code: 'FST_ERR_CTP_INVALID_JSON_BODY', statusCode: 400 }),
      );
      return;
    }
    void parseJson(request, text, (error, value) => {
      // secure-json-parse refuses __proto__ with a different error.
      finish(error && Object.assign(error, { code: 'FST_ERR_CTP_INVALID_JSON_BODY' }), value);
    });
  });
  done();
}

export default fp(jsonBody, { name: 'json-body', fastify: '5.x' });
