SET LOCAL lock_timeout = '2s';

-- Every refresh updates a row of this table. If its page has room, the new version needs no new index entry. The change
-- does not rewrite the table, and blocks neither reads nor writes. It waits for a vacuum that is running. It applies to
-- pages that are filled from now on (docs/adr/0033).
ALTER TABLE "tokens" SET (fillfactor = 90);
