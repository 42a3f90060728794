// A smaller PNG of the same picture: browsers write them quickly, not well.

import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const RGB = 2;

function chunk(kind: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}

/** The Paeth predictor of the PNG standard. */
function paeth(left: number, above: number, corner: number): number {
  const guess = left + above - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - above), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}

/** Compresses a picture of 24 bits as well as zlib can. Without filters, flat areas are long runs. */
export function smaller(png: Buffer): Buffer {
  const parts: Buffer[] = [];
  let header = Buffer.alloc(0);
  for (let place = SIGNATURE.length; place < png.length;) {
    const length = png.readUInt32BE(place);
    const kind = png.toString('latin1', place + 4, place + 8);
    const data = png.subarray(place + 8, place + 8 + length);
    if (kind === 'IHDR') header = Buffer.from(data);
    if (kind === 'IDAT') parts.push(data);
    place += length + 12;
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  if (header[8] !== 8 || header[9] !== RGB) return png;
  const [pixel, row] = [3, width * 3];
  const raw = inflateSync(Buffer.concat(parts));
  const plain = Buffer.alloc((row + 1) * height);
  for (let y = 0; y < height; y++) {
    const start = y * (row + 1);
    const filter = raw[start]!;
    for (let x = 1; x <= row; x++) {
      const at = start + x;
      const left = x > pixel ? plain[at - pixel]! : 0;
      const above = y > 0 ? plain[at - row - 1]! : 0;
      const corner = x > pixel && y > 0 ? plain[at - row - 1 - pixel]! : 0;
      const predicted = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][filter] ?? 0;
      plain[at] = (raw[at]! + predicted) & 0xff;
    }
  }
  const best = chunk('IDAT', deflateSync(plain, { level: 9, memLevel: 9 }));
  const made = Buffer.concat([SIGNATURE, chunk('IHDR', header), best, chunk('IEND', Buffer.alloc(0))]);
  return made.length < png.length ? made : png;
}
