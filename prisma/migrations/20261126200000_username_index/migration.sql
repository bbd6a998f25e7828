-- The order of an index over "C" is that of bytes, which no update of glibc or ICU changes (docs/adr/0016). The columns
-- get it in the files from users_collation on.
CREATE UNIQUE INDEX CONCURRENTLY "users_username_c" ON "users"("username" COLLATE "C");
