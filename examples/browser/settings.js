// What the page and its worker share. The operator's key is built in: whoever could change it could choose the policy.
export const settings = {
  server: 'https://collector.example',
  stream: 'visits',
  source: 'position',
  operatorKey: '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c',
};

/** The value of the present timestamp, by its number in the stream's domain; undefined if there is none. */
export async function valueNow() {
  return undefined;
}
