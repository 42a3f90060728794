export function Brand() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0b6e75" />
      <path
        d="M4 20c3.2 0 3.2-4 6.4-4s3.2 4 6.4 4 3.2-4 6.4-4 2.4 2 4.8 3.4"
        fill="none"
        stroke="#fff"
        stroke-width="2.6"
        stroke-linecap="round"
      />
      <path d="M9 8v5M16 6v7M23 8v5" stroke="#9fe3e0" stroke-width="2.4" stroke-linecap="round" />
    </svg>
  );
}
