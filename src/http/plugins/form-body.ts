import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';
import { AuthError } from '../../domain/errors.ts';
import { parseForm } from '../form.ts';

const MESSAGES = {
  malformed: 'must be a form in UTF-8',
  repeated: 'must not repeat a parameter',
};

/** Routes with this plugin accept only a form as body; all others accept only JSON. */
function formBody(app: FastifyInstance, _options: object, done: () => void): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    (_request, body, finish) => {
      const form = parseForm(body);
      if ('parameters' in form) {
        finish(null, form.parameters);
        return;
      }
      const errors = [{ path: '', message: MESSAGES[form.fault] }];
      finish(new AuthError('validation_failed', { errors }));
    },
  );
  done();
}

export default fp(formBody, { name: 'form-body', fastify: '5.x' });
