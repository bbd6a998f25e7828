/** The settings of a unit file: without continued lines and specifiers. */
export function readUnit(text: string) {
  const lines = text
    .split('\n')
    .filter((line) => /^\w+=/.test(line))
    .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const);
  const all = (name: string) => lines.filter(([key]) => key === name).map(([, value]) => value);
  return {
    all,
    /** @throws Error unless it is set once. */
    one: (name: string): string => {
      const [value, ...others] = all(name);
      if (value === undefined || others.length > 0) throw new Error(`${name} is not set once`);
      return value;
    },
  };
}
