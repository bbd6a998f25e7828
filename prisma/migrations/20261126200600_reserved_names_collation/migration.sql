SET LOCAL lock_timeout = '2s';

ALTER TABLE "reserved_names" DROP CONSTRAINT "reserved_names_pkey";
ALTER TABLE "reserved_names" ALTER COLUMN "name_hash" TYPE TEXT COLLATE "C";
ALTER TABLE "reserved_names" ADD CONSTRAINT "reserved_names_pkey" PRIMARY KEY USING INDEX "reserved_names_c";
