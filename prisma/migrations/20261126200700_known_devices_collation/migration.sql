SET LOCAL lock_timeout = '2s';

ALTER TABLE "known_devices" DROP CONSTRAINT "known_devices_pkey";
ALTER TABLE "known_devices" ALTER COLUMN "client" TYPE TEXT COLLATE "C";
ALTER TABLE "known_devices" ADD CONSTRAINT "known_devices_pkey" PRIMARY KEY USING INDEX "known_devices_c";
