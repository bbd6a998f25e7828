import type { ScaleDocument } from './scale-document.ts';
export function saveFigures(document: ScaleDocument): Promise<void> {
  return Promise.resolve(void document);
}
