// One embedded PostgreSQL for all test files if no server answers. Otherwise each file would start its own.

/** @returns {Promise<{ url: string | undefined, close: () => Promise<void> }>} url: undefined if the usual server answers */
export async function openTestDatabase({ TEST_DATABASE_URL: given }) {
  // Imported late: the build has not run when this module loads.
  const { USUAL_SERVER, answers, startTestServer } = await import('../dist/test/support/postgres.js');
  if (await answers(given ?? USUAL_SERVER)) return { url: given, close: async () => {} };
  const { url, stop } = await startTestServer();
  return { url, close: stop };
}
