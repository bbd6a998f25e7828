/** The name of the host or pod, where the environment has it. Deno may refuse to tell. */
export function hostName(): string | undefined {
  try {
    const { process } = globalThis as { process?: Partial<NodeJS.Process> };
    return process?.env?.HOSTNAME?.trim();
  } catch {
    return undefined;
  }
}
