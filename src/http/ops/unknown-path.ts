import type { FastifyReply, FastifyRequest } from 'fastify';
import { AuthError } from '../../domain/errors.ts';
import { sendError } from '../error-handler.ts';

const HINT = 'This port has /health/live, /health/ready, /metrics and /log-level.';

/** The 404 of the ops port, which has no reference. */
export function answerUnknownPath(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.header('x-request-id', request.id);
  return sendError(new AuthError('not_found'), request, reply, { hint: HINT });
}
