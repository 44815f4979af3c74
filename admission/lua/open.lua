-- Last step of a rebuild. Refused unless the gate was closed and filled under this
-- epoch and holds the expected number of records; a resend after a lost reply
-- finds it open and changes nothing.
--
-- KEYS gate orders
-- ARGV epoch, records, revision, sale, starts, ends, identity of the server
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'state', 'filled')
if gate[1] ~= ARGV[1] then return {'refused', gate[1] or ''} end
if gate[2] == 'open' then return {'open', ARGV[1]} end
-- Filled on a server that is no longer this one: what is here may be an old copy.
if ARGV[7] ~= server() then return {'refused', gate[1]} end
if gate[3] ~= ARGV[1] or redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2]) then
  return {'refused', gate[1]}
end
redis.call('HSET', KEYS[1], 'state', 'open', 'revision', ARGV[3], 'sale', ARGV[4],
  'starts', ARGV[5], 'ends', ARGV[6], 'server', ARGV[7], 'version', '1')
return {'open', ARGV[1]}
