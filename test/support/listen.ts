import type { AddressInfo, Server, Socket } from 'node:net';
import type { Test } from 'tap';

/** Lets a server listen at a port that the system chooses, until the test ends. @returns its URL */
export async function listen(t: Test, server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
