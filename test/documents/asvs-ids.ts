/** The requirements of ASVS 5.0.0 by chapter: the level of each, section by section in their order. */
export const ASVS_LEVELS: Readonly<Record<string, readonly string[]>> = {
  V6: ['122', '111111112222', '11223333', '112233', '22222333', '2223', '33', '2222'],
  V7: ['222', '1111', '22', '11222', '223', '22'],
  V9: ['111', '1222'],
  V10: ['22', '223', '22223', '1111122222233333', '22222', '22', '222'],
  V14: ['22', '12223333', '122'],
};
