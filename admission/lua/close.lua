-- First step of a rebuild: nobody is admitted any more, an absent gate is created.
-- Refused when a newer rebuild has been here. The epoch under which the records
-- were made stays in "filled": pending orders are appended under it.
--
-- KEYS gate
-- ARGV epoch
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'filled')
if gate[1] and tonumber(gate[1]) > tonumber(ARGV[1]) then
  return {'refused', gate[1]}
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'state', 'closed', 'filled', gate[2] or '0')
return {'closed', ARGV[1]}
