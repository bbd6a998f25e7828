SET LOCAL lock_timeout = '2s';

-- A hash of another system, and its cost. It counts only while the salt in password_hash is its SHA-256, so every write
-- to password_hash voids it, also that of a replica that does not know these columns (docs/adr/0038).
ALTER TABLE "users" ADD COLUMN "imported_hash" TEXT,
ADD COLUMN "imported_cost" TEXT,
ADD COLUMN "roles" TEXT[] NOT NULL DEFAULT '{}',
ADD COLUMN "email_verified_at" TIMESTAMPTZ(3);

-- How far `latchkey user import` has got, by the SHA-256 of the file.
CREATE TABLE "user_imports" (
    "file_hash" BYTEA NOT NULL,
    "lines" INTEGER NOT NULL DEFAULT 0,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,
    "finished_at" TIMESTAMPTZ(3),

    CONSTRAINT "user_imports_pkey" PRIMARY KEY ("file_hash")
);

-- The lines among them that were refused: the next run tries them again.
CREATE TABLE "refused_import_lines" (
    "file_hash" BYTEA NOT NULL,
    "line" INTEGER NOT NULL,

    CONSTRAINT "refused_import_lines_pkey" PRIMARY KEY ("file_hash","line"),
    CONSTRAINT "refused_import_lines_file_hash_fkey" FOREIGN KEY ("file_hash") REFERENCES "user_imports"("file_hash") ON DELETE CASCADE ON UPDATE CASCADE
);
