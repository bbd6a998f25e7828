import { AuthError } from '../../src/domain/errors.ts';
import type { NewPasswordPorts } from '../../src/domain/passwords/ports.ts';

/**
 * What a use case does to the world, in order: each call of a fake is a step, a line that begins with its name.
 * @param away the name of the step that fails.
 */
export function makeSteps(away?: string, fault: Error = new AuthError('unavailable')) {
  const done: string[] = [];
  const step = (name: string, ...about: unknown[]): Promise<void> => {
    done.push([name, ...about.map(String)].join(' '));
    return name === away ? Promise.reject(fault) : Promise.resolve();
  };
  return { done, step };
}

export type Steps = ReturnType<typeof makeSteps>;

/** `password` is common, 8 characters are enough, and a hash is text. */
export function newPasswordPorts({ step }: Steps): NewPasswordPorts {
  return {
    hasher: { hash: (password) => Promise.resolve(Buffer.from(`hash of ${password}`)) },
    bulkhead: {
      run: async (share, [network, address], work) => {
        await step('hash', share, network, address);
        return work();
      },
    },
    isCommonPassword: (form) => form === 'password',
    passwordMinLength: 8,
  };
}
