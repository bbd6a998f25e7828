import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/**
 * The only body that we read is JSON in UTF-8. Clients send its content type on every request, so an empty body is no
 * body on a DELETE (a GET's is never read), and malformed JSON everywhere else.
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
      // secure-json-parse refuses __proto__ with an error of its own kind.
      finish(error && Object.assign(error, { code: 'FST_ERR_CTP_INVALID_JSON_BODY' }), value);
    });
  });
  done();
}

export default fp(jsonBody, { name: 'json-body', fastify: '5.x' });
